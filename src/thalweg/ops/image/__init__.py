"""Images: files, colours, sizes, boxes."""
