"""What the world is: instances, durations, streams, files and the catalog."""
