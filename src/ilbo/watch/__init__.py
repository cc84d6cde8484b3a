"""`ilbo watch`: a page in the browser that follows runs as they go."""
