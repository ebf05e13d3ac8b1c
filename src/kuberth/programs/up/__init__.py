"""`kuberth up`: API server, hollow nodes, controllers and the scheduler in one process."""
