"""Local copies of the API's objects, kept current by list and watch.

On a pod's way this is the first stop after the client. Events come in per kind; out go stores that
plugins read and notifications for intake.
"""
