"""What people look at: figures of studies."""
