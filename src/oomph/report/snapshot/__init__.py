"""What a memory snapshot says, as text, JSON, Markdown and one HTML file."""
