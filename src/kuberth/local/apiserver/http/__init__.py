"""The API over HTTPS: authentication, routing to verbs and resources, and the form of the response."""
