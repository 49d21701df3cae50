#include "tools/verbena/commands.h"

int main(int argc, char** argv) { return verbena::tool::main_of_verbena(argc, argv); }
