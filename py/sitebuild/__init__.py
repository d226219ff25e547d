"""What builds the site: Markdown fences and live numbers, the browser's Python, the offline zip."""
