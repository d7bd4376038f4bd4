"""Launchers: start, supervise and restart the processes of a cluster, on this machine or on Ray."""
