"""How plugins are asked, phase by phase: the parts that `kuberth.framework.runner.Runner` is made of."""
