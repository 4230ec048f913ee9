#include "report/help_examples.h"

#include <algorithm>
#include <array>

namespace trireme::report {
namespace {

constexpr auto kExamples = std::to_array<HelpExamples>({
    {"trireme", R"(Examples:
  trireme train                                       train a small GPT for a minute
  trireme tour                                        a two-minute tour
  trireme generate --run RUN --prompt 'Once upon'     continue a text with a trained model
  trireme evaluate --run RUN                          its loss on all validation data
  trireme report RUN                                  an HTML page: curves, MFU, timeline, memory
  trireme schedule allreduce --ranks 4                the fastest all-reduce, step by step
  trireme schedule allreduce --compare --ranks 16     which algorithm at which size
  trireme pipeline --compare                          which pipeline schedule idles least
  trireme cluster dgx-h100:4                          the devices and links of a cluster
  trireme estimate --model gpt2-small --device h100   parameters, FLOPs, memory, best MFU
  trireme plan --model llama3-70b --cluster dgx-h100:8  the fastest plan that fits
  trireme simulate --strategies --slow 1x2            who waits for a slow worker
  trireme straggler --svg straggler.svg               the same on a real training job
  trireme probe                                       measure this host
  trireme bench allreduce -n 2 --sizes 8..64M         time collectives between processes
  trireme ps chaos                                    kill parameter servers, count what is lost
  trireme help train                                  the options of a command

Exit codes: 0 success, 1 failure, 2 usage (an invalid option or input; the message names it),
130 and 143 stopped by Ctrl-C and SIGTERM.

Sizes are written 512, 64KiB, 1M (= 1 MiB) or 10MB; times 1.5us, 20ns or 3ms.)"},
    {"trireme bench", R"(Examples:
  trireme bench allreduce -n 2 --sizes 8..64M                 the algorithm that the library chooses
  trireme bench allreduce -n 4 --sizes 1K,1M --algorithm all  every algorithm, compared
  trireme bench all -n 2 --sizes 1M --transport tcp --json | jq .microseconds
  trireme bench allreduce -n 2 --transport tcp --encrypt      what TLS costs
  trireme bench allreduce --sizes 8..16M:2 --algorithm direct,ring --svg times.svg
  trireme bench allreduce --algorithm all --tune best.tuning.json   then: --tuning best.tuning.json

A time is the median of isolated calls: from the moment all ranks arrive until the last one
finishes. Results are checked first. Predictions need the costs of this host: run
'trireme probe' once.)"},
    {"trireme calibrate", R"(Examples:
  trireme calibrate --runs ours.csv --cluster dgx-h100:4 --output ours.cluster.json
                                        then: trireme plan --cluster ours.cluster.json

Fits the shares of peak rates that runs reach to a CSV file of measured runs (see trireme
validate --help) and writes the cluster with them.)"},
    {"trireme cluster", R"(Examples:
  trireme cluster                       list the presets
  trireme cluster dgx-h100:4            four nodes of eight H100
  trireme cluster laptop --json > my.cluster.json
                                        a file to edit and use in place of a preset)"},
    {"trireme devices", R"(Examples:
  trireme devices
  trireme train --device cuda:0)"},
    {"trireme estimate", R"(Examples:
  trireme estimate --model gpt2-small --batch 8 --device h100
  trireme estimate --model gpt2-small --batch 64 --device h200 --step-time 123ms
                                                        is this MFU good?
  trireme estimate --model llama3-70b --batch 1 --recompute full --device h200
                                                        does it fit?
  trireme estimate --model gpt3-175b --tokens 300e9 --mfu 0.4 --devices 1024 --device a100
                                                        how many days?
  trireme estimate --model gpt2-small --layers 24 --width 1024 --heads 16
  trireme estimate --model path/to/config.json          a Hugging Face model
  trireme estimate --example list                       worked examples
  trireme estimate --example zero --set devices=1024    with a number of your own

Every number names its convention: model FLOPs are three forwards, hardware FLOPs what is
executed; peaks are dense. A peak that no document gives is unknown, never guessed.)"},
    {"trireme evaluate", R"(Examples:
  trireme evaluate --run runs/gpt-mini-001                  all of its validation data
  trireme evaluate --run runs/gpt-mini-001 --data test.txt  all of a file
  trireme evaluate --model path/to/folder --data test.bin -n 2 --mesh data=2 --json)"},
    {"trireme generate", R"(Examples:
  trireme generate --run runs/gpt-mini-001 --prompt 'Once upon'
  trireme generate --model path/to/folder --prompt 'The sea' --tokens 200 --top-p 0.9
  trireme generate --run runs/gpt-mini-001 --prompt a --temperature 0   the likeliest text
  trireme generate --model folder --prompt Hello -n 2 --mesh pipe=2     on two processes

The text goes to standard output as it is generated. Ctrl-C ends it.)"},
    {"trireme pipeline", R"(Examples:
  trireme pipeline --schedule gpipe --stages 4 --microbatches 6
  trireme pipeline --schedule interleaved --chunks 4 --svg interleaved.svg
  trireme pipeline --compare --stages 8 --microbatches 32
  trireme pipeline --schedule 1f1b --text > my.pipeline
  trireme pipeline --file my.pipeline --json | jq .bubble

Times are predicted and have no unit: give the time of a rank for one micro-batch. With several
stages per rank, each takes its share of that.)"},
    {"trireme plan", R"(Examples:
  trireme plan --model llama3-70b --cluster dgx-h100:8 --batch 512
                                        the best ways to parallelize it
  trireme plan --model llama3-405b --cluster 2048xdgx-h100 --batch 16Mtokens --explain
  trireme plan --model gpt3-175b --cluster dgx-a100:128 --batch 1536 --mesh tensor=8
                                        with tensor parallelism given
  trireme plan --model llama3-8b --cluster 2xdgx-a100+1xdgx-h100 --batch 192
                                        on nodes that differ
  trireme plan --model gpt2-small --cluster my.cluster.json --output best.plan.json
                                        then: trireme train --plan best.plan.json
  trireme plan show best.plan.json      what each rank communicates and needs

Times come from closed forms with the cluster's efficiency (docs/planner.md states their error);
memory from the usual formulas for mixed-precision Adam.)"},
    {"trireme plan show", R"(Examples:
  trireme plan show best.plan.json --model gpt2-small --batch 16
  trireme plan show --mesh data=2,tensor=2 --zero 1
  trireme plan show --mesh pipe=4 --microbatches 8 --schedule zb-h1 --rank 3
  trireme plan show mine.plan.json --model mlp --ops
  trireme plan show --model llama3-70b --dtype bf16 --batch 1024 --length 4096 --mesh data=32,pipe=8,tensor=8 --microbatches 32 --zero 1)"},
    {"trireme probe", R"(Examples:
  trireme probe                                  measure, print, save for the other commands
  trireme probe --quick --json | jq .host.waits
  trireme probe --output here.cluster.json && trireme schedule allreduce --cluster here.cluster.json

Times are means with their 95 % confidence intervals; a message of n bytes takes alpha + n*beta.)"},
    {"trireme ps", R"(Examples:
  trireme ps chaos --kills 20 --seed 7         kill and pause processes; count what is lost
  trireme ps bench --sizes 64KiB,1M            compared with a bare TCP loop that also adds
  export TRIREME_PS_SECRET='at least 16 characters'
  trireme ps serve --role coordinator --listen 127.0.0.1:7000 --min-servers 2 &
  trireme ps serve --coordinator 127.0.0.1:7000 --number 0 &
  trireme ps serve --coordinator 127.0.0.1:7000 --number 1 --reactors auto &
  trireme ps status --coordinator 127.0.0.1:7000
  trireme ps serve --role coordinator --membership etcd://10.0.0.1:2379,10.0.0.2:2379/job &
  trireme ps serve ... --membership etcd+tls://10.0.0.1:2379/job --etcd-ca ca.pem
  trireme ps serve ... --snapshot DIR          of all of them: snapshots that --restore reads)"},
    {"trireme repartition", R"(Examples:
  trireme repartition                                 all pairs of layouts on 4 ranks
  trireme repartition --from row --to column -n 8 --shape 4096x1024
  trireme repartition -n 3 --shape 10x7 --run         also executed, bytes counted)"},
    {"trireme report", R"(Examples:
  trireme report runs/gpt-mini-001                     report.html in the run's folder
  trireme report runs/gpt-mini-001 runs/gpt-mini-002   both side by side, in report.html
  trireme report runs/gpt-mini-001 -o page.html

The page needs nothing else: no network, no other files. A run in progress can be reported
too; to watch it, use trireme train --watch PORT.)"},
    {"trireme schedule", R"(Examples:
  trireme schedule allreduce --ranks 4                          the fastest algorithm, and why
  trireme schedule broadcast --algorithm mst --ranks 9 --root 1 --svg tree.svg
  trireme schedule allreduce --algorithm ring --ranks 8 --topology linear
  trireme schedule allreduce --compare --ranks 16 --svg compare.svg
  trireme schedule allreduce --cluster dgx-h100:4 --size 256MiB
  trireme schedule gather --algorithm mst --ranks 6 --text > my.schedule
  trireme schedule --file my.schedule --json | jq .seconds

Time is predicted: a message of b bytes takes alpha + b*beta, combining b bytes b*gamma more.)"},
    {"trireme simulate", R"(Examples:
  trireme simulate --model gpt2-small --mesh data=4,tensor=2 --cluster dgx-h100 --dtype bf16
  trireme simulate --model gpt2-small --plan my.plan.json --cluster 2xdgx-a100 --trace t.json
  trireme simulate --mesh pipe=4 --microbatches 8 --flops 1e12 --cluster figure-4x4 --slow 1x2
  trireme simulate --tasks --mesh pipe=8,data=16,tensor=8 --microbatches 64 --cluster 128xdgx-h100
  trireme simulate --model conv-mini --list-schedule 3
  trireme simulate --strategies --workers 8 --slow 1x2
  trireme simulate --strategies --workers 64 --jitter exponential --staleness 3

Times are predictions: kernels and links as fast as training reaches on the cluster, or at the
given rates. One rank of each kind is compiled, so there may be thousands of ranks. Slow
workers and stragglers are written NUMBERxFACTOR: 1x2 is one worker of half the speed.)"},
    {"trireme straggler", R"(Examples:
  trireme straggler --svg straggler.svg          one slow worker; then slow steps of all
  trireme straggler --slow 1x3 --strategies allreduce,local=16,hogwild --steps 200
  trireme straggler --transient 0.1x10 --workers 8 --json

The job is real, the slowness is not: before each step a worker waits --compute, times its
slow-down, so that results do not depend on how many cores share the work.)"},
    {"trireme tokenize", R"(Examples:
  trireme tokenize books/ --tokenizer gpt2/tokenizer.json --output books.bin
  zcat wiki.txt.gz | trireme tokenize - --tokenizer path/to/folder --output wiki.bin
  trireme train --data wiki.bin --model path/to/folder)"},
    {"trireme tour", R"(Examples:
  trireme tour
  trireme tour --json | jq .comparison.crossovers)"},
    {"trireme train", R"(Examples:
  trireme train                                  a small GPT on a generated language; takes a minute
  trireme train --data book.txt --steps 2000     any text, one token per byte
  zcat book.gz | trireme train --data -          text from standard input
  trireme train --model llama-tiny --json        a line of JSON for each step
  trireme train --model conv-mini --batch 64     a classifier of generated images
  trireme train --experts 8,per-token=2,shared=1 a mixture of experts
  trireme train --model path/to/folder           a Hugging Face config.json and weights
  trireme train --export gpt-mini                export to such a folder
  trireme train --resume runs/gpt-mini-001 --steps 800
  trireme train -n 4 --mesh data=2,tensor=2 --zero 1   on four processes
  trireme train -n 4 --mesh auto                 the plan chosen by prediction
  trireme train -n 4 --sync local=8              four workers, averaged every 8 steps
  trireme train -n 4 --sync ps:ssp=3             four workers and parameter servers
  trireme evaluate --run RUN                     then: its loss and perplexity
  trireme generate --run RUN --prompt Once       then: continue a prompt

Ctrl-C, SIGTERM and SIGHUP finish the step, save a checkpoint, and show how to resume. The exit
code is then 130, 143 or 129.)"},
    {"trireme validate", R"(Examples:
  trireme validate --runs published.csv
  trireme validate --runs vtrain.csv --calibrate-on 0.1 --draws 20 --seed 7

The file is CSV with the columns source, model, layers, hidden, heads, kv_heads, ffn, vocab,
seq, gpu, gpus, tp, pp, cp, dp, interleave, microbatch, global_batch, recompute, precision and
seconds_per_step, or a file of vTrain's runs. Optional: zero, schedule, attention (fused or
unfused), sequence, overlap_data, overlap_tensor and overlap_pipe (yes or no). Rows that lack a
number are skipped and counted.)"},
});

}  // namespace

std::span<const HelpExamples> help_examples() {
  return kExamples;
}

std::string_view help_examples_of(std::string_view command) {
  const auto* found = std::ranges::find(kExamples, command, &HelpExamples::command);
  return found == kExamples.end() ? "" : found->text;
}

}  // namespace trireme::report
