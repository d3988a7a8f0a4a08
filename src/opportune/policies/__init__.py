"""What to do: one policy a file, each a frozen dataclass that turns an instance into a plan."""
