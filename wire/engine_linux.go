package wire

const bestEngine = EngineReactor
