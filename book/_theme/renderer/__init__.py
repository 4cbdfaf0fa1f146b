"""Renders the pages that mystmd has parsed into a static site.

mystmd reads the sources and serves one syntax tree a page (JSON). Here each tree becomes HTML:

- content       fetches the pages from mystmd
- nodes         the table from node type to the function that renders it
- inline, blocks, boxes, layout, references, notebook, interactive   those functions, by concern
- outputs, ansi, highlighting, mathematics, markdown                 what the functions share
- page_renderer walks one page and collects its headings, footnotes, previews
- navigation, previews, search, assembly, offline, main              from rendered pages to a site
"""
