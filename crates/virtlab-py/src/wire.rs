//! Frames and blocks of the agent protocol.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use virtlab_wire::{block, frame};

/// Splits a byte stream into frames: `feed(bytes)`, then iterate over `(channel, kind, body)`.
#[pyclass]
struct FrameDecoder(frame::Decoder);

#[pymethods]
impl FrameDecoder {
    #[new]
    fn new() -> Self {
        Self(frame::Decoder::new())
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// Bytes that belonged to no valid frame.
    #[getter]
    fn stray_bytes(&self) -> u64 {
        self.0.stray_bytes()
    }

    /// The next `(channel, kind, body)`, or None until more bytes come.
    fn next_frame<'py>(&mut self, py: Python<'py>) -> Option<(u16, u16, Bound<'py, PyBytes>)> {
        self.0.next_frame().map(|frame| (frame.channel, frame.kind as u16, PyBytes::new(py, &frame.body)))
    }
}

/// One encoded frame. ValueError when the kind is unknown or the body too long.
#[pyfunction]
fn encode_frame<'py>(py: Python<'py>, channel: u16, kind: u16, body: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let kind = match kind {
        0 => frame::Kind::Control,
        1 => frame::Kind::Block,
        2 => frame::Kind::Data,
        other => return Err(PyValueError::new_err(format!("no frame kind {other}"))),
    };
    let mut out = Vec::new();
    frame::encode(channel, kind, body, &mut out).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &out))
}

/// Header (JSON text) and `(start, end)` of each column of a block body. ValueError when it is no block.
#[pyfunction]
fn decode_block(body: &[u8]) -> PyResult<(String, Vec<(usize, usize)>)> {
    let (header, ranges) = block::decode(body).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let text = serde_json::to_string(&header).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((text, ranges.into_iter().map(|range| (range.start, range.end)).collect()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FrameDecoder>()?;
    module.add_function(wrap_pyfunction!(encode_frame, module)?)?;
    module.add_function(wrap_pyfunction!(decode_block, module)?)
}
