# lagom_sources(OUT FOLDER...): every .cpp under the folders; seen again by the build when one is added.
function(lagom_sources out)
  set(found)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
    list(APPEND found ${sources})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# lagom_program(TARGET NAME FOLDER): a program from the folder's sources, if it has any.
function(lagom_program target name folder)
  lagom_sources(sources ${folder})
  if(sources)
    add_executable(${target} ${sources})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
    target_link_libraries(${target} PRIVATE lagom_core lagom_json lagom_fmt CLI11::CLI11)
  endif()
endfunction()
