# Puts the page of `ebbtide timeline` into one C++ file: our HTML and script,
# and dygraphs (MIT licence; Debian package libjs-dygraphs).
find_path(DYGRAPHS_DIR dygraph.min.js PATHS /usr/share/javascript/dygraphs)
if(NOT DYGRAPHS_DIR)
  message(FATAL_ERROR "dygraph.min.js was not found; expected the Debian "
    "package libjs-dygraphs, or DYGRAPHS_DIR with that file and dygraph.min.css")
endif()

function(ebbtide_timeline_page output)
  set(scripts timeline timeline_chart timeline_controls timeline_data)
  set(parts timeline.html)
  file(READ timeline.html EBBTIDE_PAGE)
  foreach(script ${scripts})
    list(APPEND parts ${script}.js)
    string(TOUPPER "${script}_JS" part)
    file(READ ${script}.js ${part})
    list(APPEND names ${part})
  endforeach()
  file(READ "${DYGRAPHS_DIR}/dygraph.min.js" DYGRAPH_JS)
  file(READ "${DYGRAPHS_DIR}/dygraph.min.css" DYGRAPH_CSS)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${parts})
  # A source map would be looked for beside the page.
  string(REGEX REPLACE "\n//# sourceMappingURL=[^\n]*" "" DYGRAPH_JS "${DYGRAPH_JS}")
  string(REGEX REPLACE "/\\*# sourceMappingURL=[^*]*\\*/" "" DYGRAPH_CSS "${DYGRAPH_CSS}")
  foreach(part DYGRAPH_CSS DYGRAPH_JS ${names})
    string(REPLACE "/*${part}*/" "${${part}}" EBBTIDE_PAGE "${EBBTIDE_PAGE}")
  endforeach()
  configure_file(timeline_page.cc.in "${output}" @ONLY)
endfunction()
