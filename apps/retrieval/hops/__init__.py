"""The hops of a search, one module each: embed, search, rerank."""
