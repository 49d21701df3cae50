// Starts itself once more with the preload library, which newer versions of CMake would load into
// their own launcher of tests as well: with a sanitizer that is the launcher's end.

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  const char* const value = std::getenv("LD_PRELOAD");
  const std::string others = value != nullptr ? value : "", ours = VERBENA_PRELOAD_LIBRARY;
  const bool only_lists = argc > 1 && argv[1] == std::string_view{"--gtest_list_tests"};
  if (!only_lists && others.find(ours) == std::string::npos) {
    setenv("LD_PRELOAD", (ours + ':' + others).c_str(), 1);
    execv("/proc/self/exe", argv);
    std::perror("/proc/self/exe");
    return 1;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
