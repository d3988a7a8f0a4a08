"""The HTTP API: who may ask (``gate``), what can be asked (the other modules), and its document."""
