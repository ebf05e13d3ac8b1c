document$.subscribe(() => {
  // Tables and code that scroll can be reached by keyboard.
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    each.tabIndex = 0
  }
  // The theme makes a landmark without a name of every copy button.
  for (const each of document.querySelectorAll(".md-code__nav")) {
    each.role = "none"
  }
})
