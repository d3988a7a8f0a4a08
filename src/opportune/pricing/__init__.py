"""What a server's time is worth: linear programs, prices, certified bounds, blocking."""
