// What was trained, with what, where and when.

function modelFacts(run) {
  const {model = {}} = run.state || {};
  const {parameters, trainable} = model;
  const trained = trainable === parameters ?
      "all trained" :
      integer(trainable) + " trained (" + percent(trainable / parameters) + ")";
  return [
    ["model", [model.path ?? settingOf(run, "model_name_or_path"), model.family]],
    [
      "parameters",
      [parameters && integer(parameters), parameters && trainable !== undefined && trained]
    ],
    ["precision", [model.precision, model.quantisation]],
    ["template", [model.template ?? settingOf(run, "template")]],
    ["reference model", [model.reference]],
  ];
}

function machineFacts(run) {
  const {machine = {}} = run.state || {};
  const gpus = Array.isArray(machine.gpus) ? machine.gpus : [];
  const several = machine.ranks > 1;
  return [
    [
      "machine",
      [
        machine.host, machine.processor, machine.cores && machine.cores + " cores",
        machine.memory_bytes && bytes(machine.memory_bytes, 3), ...gpus
      ]
    ],
    [
      "ranks",
      several ? [machine.ranks + " on " + machine.device, "sp " + machine.sp, "dp " + machine.dp] :
                []
    ],
    ["device", several ? [] : [machine.device]],
  ];
}

function settingOf(run, key) {
  const found = (run.settings || []).find((each) => each.key === key);
  return found ? found.value : undefined;
}

// [name, parts] pairs; parts that are absent are omitted.
function aboutFacts(run) {
  const state = run.state || {};
  const {began, ended, best} = state;
  const took = began && ended ? (Date.parse(ended) - Date.parse(began)) / 1000 : undefined;
  return [
    [
      "stage",
      [
        state.stage ?? settingOf(run, "stage"),
        state.finetuning_type ?? settingOf(run, "finetuning_type")
      ]
    ],
    ...modelFacts(run),
    [
      "data",
      [
        state.data ?? (settingOf(run, "dataset") || "").replace(/["[\]]/g, ""),
        state.examples && integer(state.examples) + " examples"
      ]
    ],
    [
      "best checkpoint",
      best ?
          [best.folder, best.metric + " " + figureText(best.value), "step " + integer(best.step)] :
          []
    ],
    ["command", [state.command]],
    ["directory", [state.directory]],
    ...machineFacts(run),
    [
      "moonring",
      [
        state.moonring, state.commit && "commit " + state.commit,
        state.libtorch && "LibTorch " + state.libtorch
      ]
    ],
    ["started", [utc(began)]],
    ["ended", [utc(ended)]],
    ["duration", [clockTime(took)]],
    ["folder", [run.folder]],
  ].map(([name, parts]) => [name, parts.filter((part) => part).join(", ") || undefined]);
}

function aboutTable(runs) {
  const rows = columnsOf(runs.map(aboutFacts));
  return table(
      runs.length > 1 ? ["", ...runs.map(runName)] : null,
      rows.map(([name, values]) => [name, ...values.map((value) => value ?? "-")]), "about");
}
