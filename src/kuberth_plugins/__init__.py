"""Plugins for common needs, written only with documented names of Kuberth.

On a pod's way they work like any installed plugin: the entry points of the package name them, and a profile
of the configuration enables them. docs/plugins-gallery.md describes each; `manifests/` contains their custom
resources.
"""
