"""The link to one context: its process and pipes, frames down and up, who reads them, and how it ends. Knows no call."""
