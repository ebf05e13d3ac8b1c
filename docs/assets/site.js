// Tables and code that scroll can be reached by keyboard.
document$.subscribe(() => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    each.tabIndex = 0
  }
})
