# Puts the pages of `ebbtide timeline` into one C++ file: our HTML and scripts,
# and dygraphs (MIT licence; Debian package libjs-dygraphs).
find_path(DYGRAPHS_DIR dygraph.min.js PATHS /usr/share/javascript/dygraphs)
if(NOT DYGRAPHS_DIR)
  message(FATAL_ERROR "dygraph.min.js was not found; expected the Debian "
    "package libjs-dygraphs, or DYGRAPHS_DIR with that file and dygraph.min.css")
endif()

# Sets OUTPUT to PAGE, in which a "/*NAME_JS*/" is name.js, and the like for styles.
function(ebbtide_page output page)
  file(READ "${page}" text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
  file(GLOB parts CONFIGURE_DEPENDS *.js *.css)
  foreach(part ${parts} ${DYGRAPHS_DIR}/dygraph.min.js ${DYGRAPHS_DIR}/dygraph.min.css)
    get_filename_component(name "${part}" NAME)
    string(REPLACE "dygraph.min" "dygraph" name "${name}")
    string(REPLACE "." "_" name "${name}")
    string(TOUPPER "${name}" name)
    file(READ "${part}" content)
    # A source map would be looked for beside the page.
    string(REGEX REPLACE "\n//# sourceMappingURL=[^\n]*" "" content "${content}")
    string(REGEX REPLACE "/\\*# sourceMappingURL=[^*]*\\*/" "" content "${content}")
    string(REPLACE "/*${name}*/" "${content}" text "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${part}")
  endforeach()
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

function(ebbtide_timeline_pages output)
  ebbtide_page(TIMELINE_PAGE timeline.html)
  ebbtide_page(COMPARISON_PAGE timeline_compare.html)
  configure_file(timeline_page.cc.in "${output}" @ONLY)
endfunction()
