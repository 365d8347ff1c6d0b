"""Documents with one thing wrong."""


def broken(document, path, value):
    """The document with the value at a path replaced, or removed when the value is `...`."""
    node = document
    for key in path[:-1]:
        node = node[key]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return document
