"""Objects as `kubectl get` shows them: tables, their columns and cells."""
