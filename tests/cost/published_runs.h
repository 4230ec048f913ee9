// A few published training runs, as CSV: all eight of Korthikanti et al. 2022 (arXiv 2205.05198, tables 3 and 5), five
// of Narayanan et al. 2021 (arXiv 2104.04473, table 1), and two of MosaicML's llm-foundry.
#pragma once

#include <string_view>

namespace trireme {

inline constexpr std::string_view kPublishedRuns =
    R"(source,model,params_B,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,gpus,tp,pp,cp,dp,ep,interleave,microbatch,global_batch,recompute,precision,tflops_per_gpu,mfu_pct,seconds_per_step,confidence,hfu_pct,notes
Megatron-LM SC21 Table 1,GPT 1.7B,1.7,24,2304,24,24,9216,51200,2048,A100-80GB,32,1,1,1,32,1,1,16,512,full,fp16,137,33.5,3.528,read,44,
Megatron-LM SC21 Table 1,GPT 3.6B,3.6,30,3072,32,32,12288,51200,2048,A100-80GB,64,2,1,1,32,1,1,16,512,full,fp16,138,33.5,3.697,read,44,
Megatron-LM SC21 Table 1,GPT 39.1B,39.1,48,8192,64,64,32768,51200,2048,A100-80GB,512,8,2,1,32,1,1,4,1536,full,fp16,138,33.3,14.45,read,44,
Megatron-LM SC21 Table 1,GPT 145.6B,145.6,80,12288,96,96,49152,51200,2048,A100-80GB,1536,8,8,1,24,1,2,2,2304,full,fp16,148,35.6,24.82,read,47,
Megatron-LM SC21 Table 1,GPT 529.6B,529.6,105,20480,128,128,81920,51200,2048,A100-80GB,2520,8,35,1,9,1,3,1,2520,full,fp16,163,39.2,54.08,read,52,
Korthikanti et al. 2022,GPT 22B,22,48,6144,64,64,24576,51200,2048,A100-80GB,8,8,1,1,1,1,1,4,4,selective,fp16,130.0,41.5,1.1,read,43.7,sequence parallel=yes
Korthikanti et al. 2022,GPT 175B,175,96,12288,96,96,49152,51200,2048,A100-80GB,64,8,8,1,1,1,3,1,64,selective,fp16,160.3,51.4,13.75,read,52.8,sequence parallel=yes
Korthikanti et al. 2022,GPT 1000B,1000,128,25600,160,160,102400,51200,2048,A100-80GB,512,8,64,1,1,1,1,1,512,full,fp16,132.9,42.6,94.42,read,,"sequence parallel=no; derived"
Korthikanti et al. 2022,GPT 1000B,1000,128,25600,160,160,102400,51200,2048,A100-80GB,512,8,64,1,1,1,1,1,512,selective,fp16,175.6,56.3,71.49,read,57.0,sequence parallel=yes
MosaicML llm-foundry,MPT-7b,6.659,32,4096,32,32,16384,50368,2048,H100-80GB-SXM,256,1,1,1,256,1,1,6,1536,none,amp_bf16,436,44.15,1.214,read,44.15,FSDP FULL_SHARD
MosaicML llm-foundry,MPT-3b,2.652,32,2560,20,20,10240,50368,2048,H100-80GB-SXM,8,1,1,1,8,1,1,10,480,none,amp_fp8,548,27.7,4.017,read,27.7,FSDP FULL_SHARD
Korthikanti et al. 2022,GPT 22B,22,48,6144,64,64,24576,51200,2048,A100-80GB,8,8,1,1,1,1,1,4,4,full,fp16,,,1.42,read,,sequence parallel=no
Korthikanti et al. 2022,GPT 175B,175,96,12288,96,96,49152,51200,2048,A100-80GB,64,8,8,1,1,1,3,1,64,full,fp16,,,18.13,read,,sequence parallel=no
Korthikanti et al. 2022,GPT 530B,530,105,20480,128,128,81920,51200,2048,A100-80GB,280,8,35,1,1,1,3,1,280,full,fp16,,,49.05,read,,sequence parallel=no
Korthikanti et al. 2022,GPT 530B,530,105,20480,128,128,81920,51200,2048,A100-80GB,280,8,35,1,1,1,3,1,280,selective,fp16,,56.0,37.83,read,57.0,sequence parallel=yes
)";

}  // namespace trireme
