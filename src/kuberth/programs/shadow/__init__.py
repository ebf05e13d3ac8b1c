"""`kuberth shadow` as a program: beside a cluster's real scheduler, would this one have done the same?"""
