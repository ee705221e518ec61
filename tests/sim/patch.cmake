# Writes a copy of a source with a defect in it: cmake -DPATCH=… -DDIFFERENCE=… -DFROM=… -DTO=… -P patch.cmake
get_filename_component(folder ${TO} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
# No fuzz: a defect that lands somewhere else may be none.
execute_process(COMMAND ${PATCH} --silent --fuzz=0 --reject-file=- --output=${TO} ${FROM} ${DIFFERENCE}
    RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT result EQUAL 0)
    file(REMOVE ${TO})
    message(FATAL_ERROR "${DIFFERENCE} does not fit ${FROM} any more: renew it, so that it puts the same defect "
        "back into the code as it is now.\n${text}")
endif()
