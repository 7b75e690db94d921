"""The answer of `oomph doctor`, as text, JSON, Markdown and SARIF."""
