"""What runs inside the kernel of a page: by path, apart from the page's names and the package."""
