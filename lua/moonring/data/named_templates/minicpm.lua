-- Chat templates of MiniCPM-V and MiniCPM-o. Fields: data/template_fields.lua.
return {
  { name = "minicpm_v", like = "yi", default_system = "You are a helpful assistant." },
  { name = "minicpm_v_4_6", like = "minicpm_v" },
  {
    name = "minicpm_o", like = "minicpm_v",
    default_system = "You are a helpful assistant. You can accept audio and text input and output "
      .. "voice and text.",
  },
}
