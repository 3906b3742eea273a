"""Foundation of all ttools packages: errors, findings, reports, running scripts, the device map.

Import names from the modules of this package: this file exports nothing, so that importing one
module does not load the others.
"""
