# rueda_embed(SOURCE prefix file...): writes a C file in which the text of each file is a string: that of
# a/slurm.sh.in is PREFIX_slurm_sh, of b.py PREFIX_b. The program needs no files beside it then. Bytes in place of a string
# literal: C promises no more than 4095 characters of that.

function(rueda_embed source prefix)
    set(text "/* Made by cmake/RuedaEmbed.cmake. */\n")
    foreach(file ${ARGN})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        get_filename_component(name ${file} NAME_WLE)
        string(MAKE_C_IDENTIFIER ${name} name)
        file(READ ${file} bytes HEX)
        string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
        string(REPLACE "'\\x0a'," "'\\x0a',\n    " bytes "${bytes}")
        string(APPEND text "\nextern const char ${prefix}_${name}[];\nconst char ${prefix}_${name}[] = {\n    ${bytes}0};\n")
    endforeach()
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
endfunction()
