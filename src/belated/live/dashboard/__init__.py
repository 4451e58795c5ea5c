"""The dashboard: pages that show live experiments, and forms that change them."""
