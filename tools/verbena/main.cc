#include <cstdio>
#include <exception>

#include "tools/verbena/commands.h"

int main(int argc, char** argv) {
  try {
    const int status = verbena::tool::main_of_verbena(argc, argv);
    if (std::fflush(stdout) == 0) return status;
    std::perror("verbena: standard output");
    return verbena::tool::kExitFailure;
  } catch (const std::exception& error) {  // standard output or error can't be written to
    std::fprintf(stderr, "verbena: %s\n", error.what());
    return verbena::tool::kExitFailure;
  }
}
