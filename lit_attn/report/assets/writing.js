// Which picture is this text about? The page carries each picture once, as a thumbnail of the explorer.
document.querySelectorAll("img[data-picture-of]").forEach((image) => {
  image.src = document.querySelector(`#strip [data-sample="${image.dataset.pictureOf}"] img`).src;
});
