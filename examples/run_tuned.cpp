// Runs a tuned program in this process: no Python, no worker.
//
//     run_tuned mobilenet.tuned.hlo.pb
//
// A PJRT plugin is found as `lagom` finds it (LAGOM_PJRT_PLUGIN, then the cache folder).
#include <cstdio>
#include <vector>

#include "lagom/hlo/module_file.h"
#include "lagom/hlo/proto_writer.h"
#include "lagom/measure/inputs.h"
#include "lagom/tune/input_roles.h"
#include "lagom/xla/client.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: run_tuned PROGRAM\n");
    return 2;
  }
  try {
    const lagom::hlo::Module module = lagom::hlo::read_module_file(argv[1]);
    const lagom::xla::Client client(lagom::xla::Plugin::load(lagom::xla::find_plugin()));
    const lagom::xla::Executable program = client.compile(lagom::hlo::write_hlo_proto(module));

    std::vector<lagom::xla::Buffer> inputs;  // yours here: row-major bytes, in parameter order
    for (const auto& spec : lagom::tune::input_specs(module)) {
      inputs.push_back(client.buffer_from_host({spec.element_type, spec.dimensions},
                                               make_input(spec, inputs.size(), {.seed = 1})));
    }
    const lagom::xla::RunResult result = program.run(inputs);
    for (const lagom::xla::Buffer& output : result.outputs) {
      std::printf("%s, %zu bytes\n", output.type().to_string().c_str(), output.to_host().size());
    }
    std::printf("%.3f ms on %s\n", result.seconds * 1e3, client.device_kind().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_tuned: %s\n", error.what());
    return 1;
  }
}
