// Settings of other engines: those of FSDP and accelerate in each spelling, and the sizes in
// DeepSpeed's file. Settings that shard are equal to a zero_stage, bit for bit; every other setting
// is refused by name, or one line reports that it has no effect. Also LLaMA-Factory's keys about a
// run's files and output.

#include <memory>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OtherEnginesTest : public Workplace {
 protected:
  OtherEnginesTest() {
    WriteModel("model");
    WriteConfig("finetuning_type: full\nmax_steps: 2\nsave_strategy: \"no\"\n");
  }

  CommandResult Train(std::vector<std::string> more, int ranks = 1) const {
    more.insert(more.begin(),
                {"-n", std::to_string(ranks), "train", "config.yaml", "overwrite_output_dir=true"});
    return Run(more);
  }

  // A training whose model does not exist, for errors that come before the model is opened.
  CommandResult Checked(std::vector<std::string> more) const {
    more.push_back("model_name_or_path=nothing");
    return Train(more);
  }
};

TEST_F(OtherEnginesTest, FsdpIsZero) {
  ASSERT_THAT(Train({"zero_stage=3", "output_dir=plain"}, 2), Succeeds());
  const std::string plain = ReadText(Path("plain/model.safetensors"));
  Write("fsdp.json", R"({"fsdp_sharding_strategy": "FULL_SHARD", "backward_prefetch": "x"})");
  Write("accelerate.yaml",
        "distributed_type: FSDP\nmixed_precision: 'no'\nnum_processes: 2\nuse_cpu: false\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
        "  fsdp_offload_params: true\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
        "  fsdp_state_dict_type: FULL_STATE_DICT\n");
  const struct {
    std::vector<std::string> words;
    std::string asks, says;
  } cases[] = {
      {{"fsdp=full_shard auto_wrap"}, "\nzero_stage: 3\n", ""},
      {{"fsdp=[full_shard, auto_wrap]"}, "\nzero_stage: 3\n", ""},
      {{"fsdp=shard_grad_op"}, "\nzero_stage: 2\n", ""},
      {{"fsdp=hybrid_shard"}, "\nzero_group: \"node\"\n", ""},
      {{"fsdp=full_shard offload"}, "\noffload_weights: \"cpu\"\n", ""},
      {{"fsdp_config=fsdp.json"},
       "\nzero_stage: 3\n",
       "fsdp_config: no effect: backward_prefetch: "},
      {{"fsdp_config=accelerate.yaml"},
       "\noffload_weights: \"cpu\"\n",
       "fsdp_config: no effect: num_processes: "},
  };
  for (const auto& [words, asks, says] : cases) {
    SCOPED_TRACE(words[0]);
    std::vector<std::string> all = words;
    all.push_back("output_dir=out");
    const CommandResult result = Train(all, 2);
    ASSERT_THAT(result, Succeeds());
    EXPECT_TRUE(ReadText(Path("out/model.safetensors")) == plain);
    EXPECT_THAT(ReadText(Path("out/training_args.yaml")), HasSubstr(asks));
    EXPECT_THAT(result.err, HasSubstr(says));
  }
}

TEST_F(OtherEnginesTest, FsdpRefuses) {
  const auto says = [](const std::string& words) { return FailsWith(2, HasSubstr(words)); };
  EXPECT_THAT(Checked({"fsdp=full_shar"}), says("fsdp: expected full_shard, shard_grad_op"));
  EXPECT_THAT(Checked({"fsdp=offload"}), says("fsdp: offload says nothing of what is sharded"));
  EXPECT_THAT(Checked({"fsdp=full_shard", "zero_stage=2"}),
              says("fsdp: full_shard asks for zero_stage: 3, but zero_stage is 2"));
  EXPECT_THAT(Checked({"fsdp=full_shard", "deepspeed={gradient_clipping: 1}"}),
              says("fsdp and deepspeed exclude one another"));
  const auto config = [&](const std::string& settings) {
    return Checked({"fsdp=full_shard", "fsdp_config=" + settings});
  };
  EXPECT_THAT(config("{xla: true}"), says("fsdp_config: the settings: xla is true: there are no"));
  EXPECT_THAT(config("{fsdp_sharding_strategy: NO_SHARD}"),
              says("fsdp_sharding_strategy is NO_SHARD, but fsdp is full_shard"));
  EXPECT_THAT(config("{sharding_strategy: 7}"), says("sharding_strategy: expected FULL_SHARD"));
  EXPECT_THAT(config("{forward_prefech: true}"),
              says("unknown setting 'forward_prefech'; its effect is not known"));
  EXPECT_THAT(config("{distributed_type: MULTI_GPU, fsdp_config: {fsdp_version: 2}}"),
              says("distributed_type is MULTI_GPU: expected FSDP"));
  EXPECT_THAT(config("{mixed_precision: bf16, fsdp_config: {fsdp_version: 2}}"),
              says("mixed_precision is bf16: expected bf16: true beside it"));
  EXPECT_THAT(config("{mixed_precision: fp8, fsdp_config: {fsdp_version: 2}}"),
              says("mixed_precision is fp8: expected bf16, fp16 or no"));
}

TEST_F(OtherEnginesTest, DeepSpeedsSizesAreSaidOnceAndDefaultsAreNot) {
  Write("ds.json", R"({"train_batch_size": 3, "steps_per_print": 1e7, "zero_optimization":
      {"stage": 2, "overlap_comm": true, "reduce_bucket_size": "auto", "sub_group_size": 1e9,
       "allgather_bucket_size": 2e8}, "flops_profiler": {"enabled": true}})");
  const CommandResult result = Train({"deepspeed=ds.json"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("deepspeed: no effect: zero_optimization.allgather_bucket_size, "
                              "zero_optimization.overlap_comm: "),
                    HasSubstr("deepspeed: no effect: flops_profiler.enabled, steps_per_print: "),
                    Not(HasSubstr("sub_group_size")), Not(HasSubstr("reduce_bucket_size"))));
  const std::string args = ReadText(Path("out/training_args.yaml"));
  EXPECT_THAT(args, AllOf(HasSubstr("\nglobal_batch_size: 3\n"), HasSubstr("\nzero_stage: 2\n")));
  const auto with = [&](const std::string& settings) { return Checked({"deepspeed=" + settings}); };
  const auto says = [](const std::string& words) {
    return FailsWith(2, HasSubstr("deepspeed: the settings: " + words));
  };
  EXPECT_THAT(with("{zero_optimisation: {stage: 3}}"),
              says("unknown setting 'zero_optimisation.stage' (did you mean "
                   "'zero_optimization.stage'?)"));
  EXPECT_THAT(with("{optimizer: {type: Lamb}}"), says("optimizer.type is Lamb, but optim is"));
  EXPECT_THAT(with("{scheduler: {type: WarmupLR}}"), says("scheduler.type is WarmupLR: "));
  EXPECT_THAT(with("{sparse_attention: {mode: fixed}}"), says("sparse_attention is "));
}

TEST_F(OtherEnginesTest, AcceleratesSettings) {
  const auto with = [&](const std::string& settings) {
    return Checked({"accelerator_config=" + settings});
  };
  EXPECT_THAT(with("{split_batches: true}"),
              FailsWith(2, HasSubstr("accelerator_config: the settings: split_batches is true: "
                                     "per_device_train_batch_size is of a rank")));
  EXPECT_THAT(with("{use_seedable_sampler: false}"),
              FailsWith(2, HasSubstr("the order of examples is a function of seed and epoch")));
  const CommandResult result = Train({"accelerator_config={even_batches: false}"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("accelerator_config: no effect: even_batches: "));
}

TEST_F(OtherEnginesTest, EachWeightIsListed) {
  const CommandResult result = Train({"print_param_status=true", "finetuning_type=lora"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("name: model.embed_tokens.weight, dtype: fp32, shape: 675 x 32, device: "
                      "cpu, trainable: no\n"),
            HasSubstr(".self_attn.q_proj.lora_A.weight, dtype: fp32, shape: 8 x 32, device: cpu, "
                      "trainable: yes\n")));
}

TEST_F(OtherEnginesTest, TokensAreInTheLogWhereTheyAreAskedFor) {
  ASSERT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl"}), Succeeds());
  int64_t tokens = 0;
  for (const json& row : ReadJsonLines(Path("rows.jsonl")))
    tokens += static_cast<int64_t>(row.at("input_ids").size());
  for (const char* value : {"true", "non_padding", "all"}) {
    ASSERT_THAT(
        Train({std::string("include_num_input_tokens_seen=") + value,
               "include_tokens_per_second=true", "logging_steps=1",
               "include_effective_tokens_per_second=true", "max_steps=-1", "num_train_epochs=1"},
              2),
        Succeeds());
    const std::vector<json> lines = ReadJsonLines(Path("out/trainer_log.jsonl"));
    const json state = ReadJson(Path("out/trainer_state.json")),
               results = ReadJson(Path("out/train_results.json"));
    EXPECT_EQ(lines[lines.size() - 2].at("total_tokens"), tokens);
    EXPECT_GT(lines[0].at("throughput").get<double>(), 0);
    EXPECT_EQ(state.at("num_input_tokens_seen"), tokens);
    EXPECT_EQ(state.at("log_history").back().at("num_input_tokens_seen"), tokens);
    const double seconds = results.at("train_runtime");
    EXPECT_DOUBLE_EQ(results.at("train_tokens_per_second"), static_cast<double>(tokens) / seconds);
    EXPECT_DOUBLE_EQ(results.at("effective_tokens_per_sec"),
                     static_cast<double>(tokens) / seconds / 2);
  }
  ASSERT_THAT(Train({"logging_steps=1"}), Succeeds());
  EXPECT_FALSE(ReadJsonLines(Path("out/trainer_log.jsonl"))[0].contains("total_tokens"));
  EXPECT_FALSE(ReadJson(Path("out/trainer_state.json"))
                   .at("log_history")[0]
                   .contains("num_input_tokens_seen"));
}

// Two "machines" of one rank each: first with two folders as output_dir, then with one.
TEST_F(OtherEnginesTest, EachNodeSavesTheModel) {
  const auto train = [&](const std::string& first, const std::string& second,
                         const std::string& more) {
    const std::string port = FreePort();
    std::vector<std::unique_ptr<Command>> ranks;
    for (const int rank : {0, 1}) {
      CommandOptions options = Options({"train", "config.yaml", "save_on_each_node=true",
                                        "zero_stage=3", "overwrite_output_dir=true",
                                        "output_dir=" + (rank == 0 ? first : second), more});
      options.environment.merge(std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                   {"WORLD_SIZE", "2"},
                                                                   {"LOCAL_RANK", "0"},
                                                                   {"LOCAL_WORLD_SIZE", "1"},
                                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                                   {"MASTER_PORT", port}});
      ranks.push_back(std::make_unique<Command>(options));
    }
    ranks[0]->Wait();
    return ranks[1]->Wait();
  };
  const auto model = [&](const std::string& out) {
    return ReadText(Path(out + "/model.safetensors"));
  };
  ASSERT_THAT(train("first", "second", "seed=42"), Succeeds());
  EXPECT_TRUE(model("second") == model("first"));
  EXPECT_EQ(ReadText(Path("second/config.json")), ReadText(Path("first/config.json")));
  ASSERT_THAT(train("both", "both", "seed=42"), Succeeds());
  EXPECT_TRUE(model("both") == model("first"));
  // A checkpoint's files would be split over two folders.
  EXPECT_THAT(train("first", "second", "save_strategy=steps"),
              FailsWith(2, HasSubstr("save_on_each_node: machines have an output_dir of their own "
                                     "each (second is one)")));
}

}  // namespace
}  // namespace moonring::testing
