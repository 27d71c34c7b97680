# Install rules and the relocatable package `find_package(headrace)`.
