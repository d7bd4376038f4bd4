"""Sessions that initialize, recover and stop by themselves: MonitoredSession, Supervisor."""
