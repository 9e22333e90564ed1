"""The link to one context: its process and pipes, frames down and up, its reader and its end. Knows no values and no modules."""
