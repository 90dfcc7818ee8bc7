"""The product above the kernels: rewards in process, over HTTP, for files, and explained."""
