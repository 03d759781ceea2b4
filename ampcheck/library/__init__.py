"""What known libraries' names mean, as data: one module a library."""
