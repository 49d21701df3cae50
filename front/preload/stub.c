/* A library of nothing but its SONAME and what it needs; see verbena_need() in CMakeLists.txt. */
typedef int verbena_stub_is_not_empty;
