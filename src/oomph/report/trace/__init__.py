"""A traced run as text, JSON, Markdown and HTML."""
