"""The API over HTTPS: who asks, which verb on which resource, and the form in which the answer goes out."""
