"""Long runs of `kuberth run` and `kuberth up` under churn and restarts: what grows, and how fast."""
