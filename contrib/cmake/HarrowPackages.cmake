# Uninstalling, and Debian packages (contrib/build-deb): harrow, harrow-slurm-plugin, libharrow0, libharrow-dev, libharrow-multiview-dev.
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/Uninstall.cmake
  COMMENT "removing what was installed last" VERBATIM)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Harrow developers <harrow@example.org>")
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "https://harrow.example.org")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
# What Debian wants of a package and an installation elsewhere does not have.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake)

set(CPACK_COMPONENTS_ALL launcher)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_NAME harrow)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_SUGGESTS "harrow-slurm-plugin, bash-completion")
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/../debian/conffiles)
set(CPACK_COMPONENT_LAUNCHER_DESCRIPTION "runs an ensemble of many tasks inside one batch allocation
One command runs a list or a graph of many short commands inside one Slurm
allocation, or on one machine: in an order that keeps caches warm and no core
idle. Each task runs once, its output is kept, and what is done stays done:
an interrupted run goes on where it was.")
if(TARGET spank_harrow)
  list(APPEND CPACK_COMPONENTS_ALL plugin)
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_NAME harrow-slurm-plugin)
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_SECTION admin)
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_ENHANCES "slurmd, slurm-client")
  set(CPACK_COMPONENT_PLUGIN_DESCRIPTION "SPANK plugin of Harrow for Slurm
Gives jobs that ask for it a private directory on the local disk of each of
their nodes, tells Harrow what the site allows, and clears up when the job
ends. Jobs that do not ask for it do not notice it. Being installed it enables
nothing: see harrow-plugin(8).")
endif()
if(TARGET libharrow)
  list(APPEND CPACK_COMPONENTS_ALL library library_dev)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libharrow0)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/../debian/library/shlibs
    ${CMAKE_CURRENT_LIST_DIR}/../debian/library/triggers)
  set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "tasks for a run of Harrow, by programs: shared library
Programs, among them tasks of a run, submit tasks to a run of Harrow that goes
on, a hundred thousand a second, and await what becomes of them.")
  set(CPACK_DEBIAN_LIBRARY_DEV_PACKAGE_NAME libharrow-dev)
  set(CPACK_DEBIAN_LIBRARY_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_LIBRARY_DEV_PACKAGE_DEPENDS "libharrow0 (= ${PROJECT_VERSION}-1)")
  set(CPACK_COMPONENT_LIBRARY_DEV_DESCRIPTION "tasks for a run of Harrow, by programs: headers
Programs, among them tasks of a run, submit tasks to a run of Harrow that goes
on, a hundred thousand a second, and await what becomes of them. Headers for C
and C++, CMake and pkg-config files, and the manual.")
endif()
if(TARGET harrow_multiview)
  list(APPEND CPACK_COMPONENTS_ALL multiview)
  set(CPACK_DEBIAN_MULTIVIEW_PACKAGE_NAME libharrow-multiview-dev)
  set(CPACK_DEBIAN_MULTIVIEW_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_MULTIVIEW_PACKAGE_DEPENDS "libopenmpi-dev")
  set(CPACK_COMPONENT_MULTIVIEW_DESCRIPTION "arrays redistributed between MPI tasks of different grain
Multi-View cuts distributed arrays anew between an ensemble stage and an
analysis stage of an MPI program, and runs tasks where their data is. C++, C
and Fortran; static libraries, headers, CMake and pkg-config files.")
endif()
include(CPack)
