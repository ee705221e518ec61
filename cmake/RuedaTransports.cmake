# Transports from folders outside of src/. A folder FOLDER/NAME with `const transport_table transport_NAME` in
# its C files becomes a row of the registry; docs/adding-a-transport.md says more.
set(RUEDA_TRANSPORTS "" CACHE STRING "Folders of more transports, each named as its transport")

# rueda_add_transports(target folder...): the target gets the folders' files and a registry with their rows.
function(rueda_add_transports target)
    set(rows)
    foreach(folder ${ARGN})
        get_filename_component(name ${folder} NAME)
        file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c)
        if(NOT sources)
            message(FATAL_ERROR "no C files in ${folder}: a transport is a folder with some")
        endif()
        target_sources(${target} PRIVATE ${sources})
        string(APPEND rows "X(${name})")
    endforeach()
    if(NOT rows)
        return()
    endif()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/transport/registry.c)
    target_compile_definitions(${target} PRIVATE "TRANSPORT_MORE=${rows}")
endfunction()
