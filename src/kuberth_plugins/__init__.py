"""Plugins that many clusters ask for, written with the names of Kuberth that plugins of others use too.

On a pod's way these decide like any installed plugin: the entry points of the package name them, and a
profile of the configuration enables them. docs/plugins-gallery.md describes each of them; `manifests/` has
their custom resources.
"""
