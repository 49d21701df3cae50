#include <cstdio>
#include <exception>

#include "tools/verbena/commands.h"

int main(int argc, char** argv) {
  try {
    return verbena::tool::main_of_verbena(argc, argv);
  } catch (const std::exception& error) {  // standard output or error can't be written to
    std::fprintf(stderr, "verbena: %s\n", error.what());
    return verbena::tool::kExitFailure;
  }
}
